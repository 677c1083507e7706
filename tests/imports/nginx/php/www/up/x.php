<?php // up/x.php
